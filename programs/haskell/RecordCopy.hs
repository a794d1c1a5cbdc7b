-- | Copies records of 200 bytes: RecordCopy IN OUT
module Main (main) where

import Foreign.Marshal.Alloc (allocaBytes)
import System.Environment (getArgs)
import System.IO

main :: IO ()
main = do
  [from, to] <- getArgs
  input <- openBinaryFile from ReadMode
  output <- openBinaryFile to WriteMode
  hSetBuffering input NoBuffering
  hSetBuffering output NoBuffering
  allocaBytes 200 $ \record ->
    let copy = do
          size <- hGetBufSome input record 200
          if size == 0 then pure () else hPutBuf output record size >> copy
     in copy
  hClose output
