# Copies records of 200 bytes: record-copy.tcl IN OUT
set input [open [lindex $argv 0] rb]
set output [open [lindex $argv 1] wb]
fconfigure $input -buffering none -buffersize 200
fconfigure $output -buffering none
while {[string length [set record [read $input 200]]] > 0} {
    puts -nonewline $output $record
}
close $output
