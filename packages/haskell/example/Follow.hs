import Control.Concurrent (forkIO, getNumCapabilities, threadDelay)
import Creel (follow)
import System.Directory (getSymbolicLinkTarget)
import System.Process (callProcess)

-- Shows that capabilities follow the limits. The program narrows its own mask to one CPU.
main :: IO ()
main = do
  _ <- forkIO follow
  pid <- getSymbolicLinkTarget "/proc/self"
  callProcess "taskset" ["-acp", "0", pid]
  untilOne
  where
    untilOne = do
      n <- getNumCapabilities
      if n == 1 then print n else threadDelay 10000 >> untilOne
