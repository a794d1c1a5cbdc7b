! Formatted lines with a flush after each, read back, appended, mixed with prints.
program formatted_lines
    implicit none
    integer :: unit, i, value, status, lines
    real :: x
    character(len=80) :: line
    open(newunit=unit, file='lines.txt', status='replace')
    do i = 1, 3000
        write(unit, '(i8,f12.4,a)') i, sqrt(real(i)), ' line of a report'
        flush(unit)
        if (mod(i, 1000) == 0) print *, 'written', i
    end do
    close(unit)
    open(newunit=unit, file='lines.txt', status='old', position='append')
    do i = 1, 2000
        write(unit, '(a,i0)') 'appended ', i
    end do
    rewind(unit)
    lines = 0
    do
        read(unit, '(a)', iostat=status) line
        if (status /= 0) exit
        lines = lines + 1
    end do
    backspace(unit)
    backspace(unit)
    read(unit, '(a)') line
    print *, lines, trim(line)
    rewind(unit)
    read(unit, *) value, x
    print *, value, x
    close(unit)
    open(newunit=unit, file='sequential.bin', form='unformatted', status='replace')
    do i = 1, 5000
        write(unit) i, real(i), 'abcdefgh'
    end do
    rewind(unit)
    do i = 1, 2500
        read(unit) value
    end do
    write(unit) 'cut here'
    close(unit)
    stop 3
end program
