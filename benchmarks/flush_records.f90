! Writes formatted records and flushes after each, as codes do that want their log to survive:
!     flush_records COUNT KIND FILE
! KIND is `integer` or `real`, the number in each record. Making the decimal digits of a real number
! is most of such a program's own time, which no buffer can take away.
program flush_records
  implicit none
  character(len=4096) :: argument, kind_of_number, path
  integer :: count, number, unit
  call get_command_argument(1, argument)
  read (argument, *) count
  call get_command_argument(2, kind_of_number)
  call get_command_argument(3, path)
  open (newunit=unit, file=trim(path), form='formatted', status='replace', action='write')
  do number = 1, count
    if (kind_of_number == 'real') then
      write (unit, '(a, i10, a, es16.8)') 'step ', number, ' residual ', 1.0d0 / number
    else
      write (unit, '(a, i10, a, i10)') 'step ', number, ' cell ', mod(number, 4096)
    end if
    flush (unit)
  end do
  close (unit)
end program flush_records
