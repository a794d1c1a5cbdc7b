-- Copies records of 200 bytes: record-copy.lua IN OUT
local input = assert(io.open(arg[1], "rb"))
local output = assert(io.open(arg[2], "wb"))
input:setvbuf("no")
output:setvbuf("no")
for record in input:lines(200) do
  output:write(record)
end
output:close()
