-- A chain of forkIO threads. Prints the ns per pass, the number of passes, and the memory in KiB
-- before the first pass and at its peak.
import Control.Concurrent
import Control.Monad
import Data.Char (isDigit)
import Data.List (isPrefixOf)
import GHC.Clock (getMonotonicTimeNSec)
import System.Environment (getArgs)

chain :: Int -> IO ()
chain len = do
  end <- newEmptyMVar
  start <- foldM link end [1 .. len]
  putMVar start (0 :: Int)
  found <- takeMVar end
  when (found /= len) (error "the chain is broken")
  where
    link left _ = do
      right <- newEmptyMVar
      _ <- forkIO (takeMVar right >>= \n -> putMVar left $! n + 1)
      return right

kib :: String -> IO Int
kib name = do
  text <- readFile "/proc/self/status"
  let found = [filter isDigit l | l <- lines text, name `isPrefixOf` l]
  return $! (if null found then 0 else read (head found))

repeated :: Int -> Integer -> IO (Integer, Double)
repeated len ns = do
  begin <- getMonotonicTimeNSec
  let go n = do
        chain len
        now <- getMonotonicTimeNSec
        let taken = fromIntegral (now - begin)
        if taken < ns then go (n + 1) else return (n, fromIntegral taken / fromIntegral n)
  go 1

main :: IO ()
main = do
  [_, len, workers, warm, sample] <- getArgs
  setNumCapabilities (read workers)
  before <- kib "VmRSS:"
  (warmed, _) <- repeated (read len) (read warm * 1000)
  (counted, ns) <- repeated (read len) (read sample * 1000)
  most <- kib "VmHWM:"
  putStrLn (unwords [show ns, show (warmed + counted), show before, show most])
