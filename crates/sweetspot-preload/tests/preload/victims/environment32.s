# A 32-bit program without any library: prints its environment.
.globl _start
_start:
    mov (%esp), %ecx
    lea 8(%esp, %ecx, 4), %esi
next:
    mov (%esi), %ecx
    test %ecx, %ecx
    jz done
    mov %ecx, %edx
scan:
    cmpb $0, (%edx)
    je print
    inc %edx
    jmp scan
print:
    movb $10, (%edx)
    inc %edx
    sub %ecx, %edx
    mov $4, %eax
    mov $1, %ebx
    int $0x80
    add $4, %esi
    jmp next
done:
    mov $1, %eax
    xor %ebx, %ebx
    int $0x80
