# Copies records of 200 bytes: record-copy IN OUT
File.open(ARGV[0], "rb") do |input|
  File.open(ARGV[1], "wb") do |output|
    input.read_buffering = false
    output.sync = true
    record = Bytes.new(200)
    while (length = input.read(record)) > 0
      output.write(record[0, length])
    end
  end
end
