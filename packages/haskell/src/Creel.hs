{-# LANGUAGE ForeignFunctionInterface #-}

-- | Returns how many workers this process should start.
module Creel (workers, follow) where

import Control.Concurrent (getNumCapabilities, rtsSupportsBoundThreads, setNumCapabilities, threadDelay)
import Control.Monad (forever, when)
import Foreign.C.Types (CUInt (..))

foreign import ccall unsafe "creel_workers" c_workers :: IO CUInt

-- | Returns the number of usable cores, with quotas rounded down. It is at least 1.
workers :: IO Int
workers = fromIntegral <$> c_workers

-- | Keeps the number of capabilities equal to 'workers' while masks and quotas change.
--
-- It checks once per second and never returns, so run it in its own thread with @forkIO follow@.
-- Without the threaded runtime it returns at once.
follow :: IO ()
follow = when rtsSupportsBoundThreads . forever $ do
  warranted <- workers
  own <- getNumCapabilities
  when (warranted /= own) $ setNumCapabilities warranted
  threadDelay 1000000
