/// Copies records of 200 bytes: record_copy IN OUT
import core.stdc.stdio : _IONBF;
import std.stdio;

void main(string[] names)
{
    auto input = File(names[1], "rb");
    auto output = File(names[2], "wb");
    input.setvbuf(0, _IONBF);
    output.setvbuf(0, _IONBF);
    ubyte[200] record;
    while (true)
    {
        auto read = input.rawRead(record[]);
        if (read.length == 0)
            break;
        output.rawWrite(read);
    }
}
