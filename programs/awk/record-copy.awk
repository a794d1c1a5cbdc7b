# Copies lines, and flushes after each: awk -v output=OUT -f record-copy.awk IN
{
    print > output
    fflush(output)
}
