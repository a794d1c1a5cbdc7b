// iostreams: unit-buffered writes, get and getline, fstream updates, tellg and seekg, appends.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

int main() {
    std::ostringstream said;
    {
        std::ifstream in("in.txt", std::ios::binary);
        std::ofstream out("stream.out", std::ios::binary);
        out << std::unitbuf;
        std::string line;
        while (std::getline(in, line)) out << line.size() << ' ' << line << '\n';
        said << in.eof() << out.tellp() << '\n';
    }
    {
        std::ifstream in;
        in.rdbuf()->pubsetbuf(nullptr, 0);
        in.open("in.txt", std::ios::binary);
        long sum = 0;
        char byte;
        for (int i = 0; i < 20000 && in.get(byte); i++) sum += byte;
        said << sum << ' ' << in.tellg() << '\n';
    }
    {
        std::fstream file;
        file.rdbuf()->pubsetbuf(nullptr, 0);
        file.open("update.out", std::ios::in | std::ios::out | std::ios::trunc | std::ios::binary);
        for (int i = 0; i < 3000; i++) file << "record " << 10000 + i << '\n';
        for (int i = 0; i < 2000; i++) {
            file.seekg((i * 7919L) % 3000 * 13);
            std::string word;
            file >> word;
            file.seekp(file.tellg());
            if (i % 4 == 0) file << '=' << std::flush;
        }
        file.seekg(0, std::ios::end);
        said << file.tellg() << ' ' << file.good() << '\n';
    }
    {
        std::ofstream log("log.out", std::ios::app);
        for (int i = 0; i < 1000; i++) {
            log << "line " << i << std::endl;
            if (i % 250 == 0) std::cerr << "at " << i << std::endl;
        }
        std::rename("log.out", "log.moved");
        log << "after" << std::endl;
    }
    std::cout << said.str();
    for (int i = 0; i < 2000; i++) std::cout << i << std::endl;
    return 12;
}
