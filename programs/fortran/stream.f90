! Unformatted stream access: small writes, positions, reads back, overwrites in place.
program stream_access
    implicit none
    integer :: unit, i, value, status
    integer(8) :: total
    character(len=10) :: text
    open(newunit=unit, file='stream.bin', access='stream', form='unformatted', status='replace', action='readwrite')
    do i = 1, 20000
        write(unit) i
    end do
    do i = 1, 20000, 7
        write(unit, pos=4*(i-1)+1) -i
    end do
    flush(unit)
    total = 0
    do i = 1, 20000
        read(unit, pos=4*(i-1)+1) value
        total = total + value
    end do
    print *, 'total', total
    write(unit, pos=100001) 'past the end'
    read(unit, pos=100003) text
    inquire(unit=unit, pos=i)
    print *, text, i
    read(unit, pos=99999999, iostat=status) value
    print *, 'beyond', status
    close(unit)
end program
