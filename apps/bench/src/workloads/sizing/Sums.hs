-- Threads that allocate all the time, like the requests of a service. All capabilities meet at each
-- garbage collection, so more capabilities than cores delay the others. The argument is a factor of
-- the work.
import Control.Concurrent
import Control.Monad
import Data.List (foldl')
import qualified Data.IORef as R
import System.Environment

work :: Int -> Int
work seed = foldl' (\sum n -> (sum + length (show n)) `mod` 1000003) seed [1 .. 60000]

main :: IO ()
main = do
  threads <- getNumCapabilities
  times <- map read <$> getArgs
  next <- R.newIORef (0 :: Int)
  dones <- forM [1 .. threads] $ \_ -> do
    done <- newEmptyMVar
    let loop sum = do
          job <- R.atomicModifyIORef' next (\n -> (n + 1, n))
          if job >= 48 * product times then putMVar done sum else do
            let one = work job
            one `seq` loop (sum + one)
    _ <- forkIO (loop 0)
    return done
  sums <- mapM takeMVar dones
  print (sum sums)
