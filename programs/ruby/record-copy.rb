# Copies records of 200 bytes: record-copy.rb IN OUT
File.open(ARGV[0], "rb") do |input|
  File.open(ARGV[1], "wb") do |output|
    loop { output.syswrite(input.sysread(200)) }
  rescue EOFError
    # All is copied.
  end
end
