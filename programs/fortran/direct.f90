! Direct access records, written in order, read and rewritten at random.
program direct_access
    implicit none
    integer :: unit, i, number, status
    integer(8) :: seed, total
    character(len=92) :: text
    open(newunit=unit, file='direct.bin', access='direct', form='unformatted', recl=96, status='replace')
    do i = 1, 4000
        write(text, '(a,i8.8)') 'record ', i
        write(unit, rec=i) i, text
    end do
    seed = 4711
    total = 0
    do i = 1, 4000
        seed = mod(seed * 1103515245_8 + 12345_8, 2147483648_8)
        number = int(mod(seed / 65536, 4000_8)) + 1
        read(unit, rec=number) number, text
        total = total + number
        if (mod(i, 3) == 0) then
            text(20:30) = 'rewritten'
            write(unit, rec=number) number, text
        end if
    end do
    read(unit, rec=100000, iostat=status) number, text
    print *, 'total', total, 'beyond', status /= 0
    close(unit)
end program
