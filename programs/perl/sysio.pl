# sysread, syswrite, sysseek, truncate, and buffered handles beside them.
use strict;
use warnings;
use Fcntl qw(:DEFAULT :seek :flock);
my @said;
sysopen(my $in, "in.txt", O_RDONLY) or die;
sysopen(my $out, "perl.out", O_RDWR | O_CREAT | O_TRUNC, 0644) or die;
my ($data, $n) = ("", 0);
while (($n = sysread($in, $data, 29)) > 0) { syswrite($out, uc $data) == $n or die "short"; }
push @said, sysseek($in, 0, SEEK_CUR), sysseek($out, 0, SEEK_CUR), -s $out, -s "perl.out";
for my $step (1 .. 1500) {
    my $at = ($step * 7919) % 40000;
    sysseek($out, $at, SEEK_SET);
    sysread($out, $data, 12);
    syswrite($out, scalar reverse $data) if $step % 4 == 0;
}
truncate($out, 30000);
push @said, -s $out;
open(my $copy, ">&", $out) or die;
syswrite($copy, "$_;") for 1 .. 1000;
syswrite($out, "original");
push @said, sysseek($copy, 0, SEEK_CUR);
close $copy;
open(my $append, ">>", "perl.out") or die;
flock($append, LOCK_EX);
{ my $old = select $append; $| = 1; select $old; }
print $append "line $_\n" for 1 .. 1000;
flock($append, LOCK_UN);
push @said, tell($append);
open(my $lines, "<", "perl.out") or die;
my $count = 0;
while (<$lines>) { $count++; last if $. == 300; }
push @said, $count, tell($lines);
if (my $child = fork) { waitpid $child, 0; push @said, $? >> 8; }
else { print $append "child\n"; exit 6; }
push @said, `wc -c < perl.out`;
my $end = `tail -n 2 perl.out`;
push @said, $end;
rename "perl.out", "perl.moved";
print $append "after rename\n";
push @said, -s "perl.moved";
print join("|", @said), "\n";
{ local @ARGV = ("edit.txt"); local $^I = ".bak"; while (<>) { s/7/seven/g; print; } }
exit 3;
