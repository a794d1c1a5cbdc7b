! Writes formatted records and flushes after each, as codes do that want their log to survive:
!     flush_records COUNT FILE
program flush_records
  implicit none
  character(len=4096) :: argument, path
  integer :: count, number, unit
  call get_command_argument(1, argument)
  read (argument, *) count
  call get_command_argument(2, path)
  open (newunit=unit, file=trim(path), form='formatted', status='replace', action='write')
  do number = 1, count
    write (unit, '(a, i10, a, es16.8)') 'step ', number, ' residual ', 1.0d0 / number
    flush (unit)
  end do
  close (unit)
end program flush_records
