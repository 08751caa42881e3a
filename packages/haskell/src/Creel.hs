{-# LANGUAGE ForeignFunctionInterface #-}

-- | How many workers this process should have.
module Creel (workers, follow) where

import Control.Concurrent (getNumCapabilities, rtsSupportsBoundThreads, setNumCapabilities, threadDelay)
import Control.Monad (forever, when)
import Foreign.C.Types (CUInt (..))

foreign import ccall unsafe "creel_workers" c_workers :: IO CUInt

-- | The usable cores, fractions of a quota cut off; at least 1.
workers :: IO Int
workers = fromIntegral <$> c_workers

-- | Keeps as many capabilities as 'workers', while masks and quotas change: looks once a second,
-- for ever, so give it a thread: @forkIO follow@. Returns at once without the threaded runtime.
follow :: IO ()
follow = when rtsSupportsBoundThreads . forever $ do
  warranted <- workers
  own <- getNumCapabilities
  when (warranted /= own) $ setNumCapabilities warranted
  threadDelay 1000000
