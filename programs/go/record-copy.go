// Copies records of 200 bytes: record-copy IN OUT
package main

import (
	"io"
	"os"
)

func main() {
	input, err := os.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	output, err := os.Create(os.Args[2])
	if err != nil {
		panic(err)
	}
	record := make([]byte, 200)
	for {
		length, err := input.Read(record)
		if err == io.EOF {
			return
		}
		if err == nil {
			_, err = output.Write(record[:length])
		}
		if err != nil {
			panic(err)
		}
	}
}
