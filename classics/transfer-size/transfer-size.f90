! As transfer-size.c, with Fortran's unformatted READ:
!     transfer-size-fortran TRANSFER_BYTES PASSES FILE
! Stream access, so that the file is the same for all: the records of sequential access would have
! lengths of their own in it. The size is a multiple of 8, and the file's length one of the size.
program transfer_size
  use, intrinsic :: iso_fortran_env, only: int64, real64
  implicit none
  integer(int64), parameter :: transfer_bytes_max = 2_int64**20, passes_max = 1000
  integer(int64) :: words(transfer_bytes_max / 8)
  integer(int64) :: size, passes, pass, transfers, before, checksum, start, finish, rate
  real(real64) :: samples(passes_max)
  character(len=4096) :: argument, path
  integer :: unit, status
  call get_command_argument(1, argument)
  read (argument, *) size
  call get_command_argument(2, argument)
  read (argument, *) passes
  call get_command_argument(3, path)
  if (size < 8 .or. size > transfer_bytes_max .or. mod(size, 8_int64) /= 0) then
    error stop 'a transfer has 8 bytes to 1 MiB, a multiple of 8'
  end if
  if (passes < 1 .or. passes > passes_max) error stop 'there are 1 to 1000 passes'
  open (newunit=unit, file=trim(path), access='stream', form='unformatted', status='old', &
        action='read')
  transfers = 0
  checksum = 0
  call system_clock(count_rate=rate)
  do pass = 1, passes
    before = transfers
    call system_clock(start)
    do
      read (unit, iostat=status) words(1:size / 8)
      if (status /= 0) exit
      ! Wraps around, as it does in C: see -fwrapv in the plan.
      checksum = checksum * 31 + words(1)
      transfers = transfers + 1
    end do
    rewind (unit)
    call system_clock(finish)
    samples(pass) = real(finish - start, real64) * 1e9_real64 / real(rate, real64) &
                    / max(1_int64, transfers - before)
  end do
  print '(a, i0)', 'transfers ', transfers
  print '(a, i0)', 'checksum ', checksum
  call get_environment_variable('SWEETSPOT_SAMPLES_FD', argument, status=status)
  if (status == 0) then
    open (newunit=unit, file='/dev/fd/' // trim(argument), action='write')
    write (unit, '(a, *(f20.3, :, ", "))', advance='no') '{"unit": "ns", "samples": [', &
      samples(1:passes)
    write (unit, '(a)') ']}'
    close (unit)
  else
    print '(a, f0.3)', 'nanoseconds_per_transfer ', sum(samples(1:passes)) / real(passes, real64)
  end if
end program transfer_size
