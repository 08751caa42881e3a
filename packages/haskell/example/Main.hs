import GHC.Conc (getNumCapabilities)

-- This program imports nothing from the package, because a dependency on it is enough.
main :: IO ()
main = getNumCapabilities >>= print
