{-# LANGUAGE ForeignFunctionInterface #-}

-- | How many workers this process should have.
module Creel (workers) where

import Foreign.C.Types (CUInt (..))

foreign import ccall unsafe "creel_workers" c_workers :: IO CUInt

-- | The usable cores, fractions of a quota cut off; at least 1.
workers :: IO Int
workers = fromIntegral <$> c_workers
