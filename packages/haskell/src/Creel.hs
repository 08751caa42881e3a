{-# LANGUAGE ForeignFunctionInterface #-}

-- | Returns how many workers this process should start.
module Creel (workers, setMask, follow) where

import Control.Concurrent (getNumCapabilities, rtsSupportsBoundThreads, setNumCapabilities, threadDelay)
import Control.Monad (forever, when)
import Data.Word (Word32)
import Foreign.C.Error (errnoToIOError, Errno (..))
import Foreign.C.String (CString, withCString)
import Foreign.C.Types (CInt (..))

-- This call reads about forty files, so it must not hold up a garbage collection.
foreign import ccall safe "creel_hs_workers" c_workers :: IO Word32

foreign import ccall unsafe "creel_hs_set_mask" c_set_mask :: CString -> IO CInt

-- | Narrows the affinity mask of the calling OS thread to a Linux CPU list, for example @0-3,8@.
--
-- Throws an 'IOError' if the list is invalid or names a CPU outside of the current mask. Call it in
-- a bound thread ('Control.Concurrent.runInBoundThread'), because others move between OS threads.
setMask :: String -> IO ()
setMask list
  | '\0' `elem` list = fails 22
  | otherwise = withCString list c_set_mask >>= \code -> when (code /= 0) (fails code)
  where
    fails code = ioError (errnoToIOError "Creel.setMask" (Errno code) Nothing (Just list))

-- | Returns the number of usable cores, with quotas rounded down. It is at least 1.
--
-- The call reads about forty files, so keep its result.
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
