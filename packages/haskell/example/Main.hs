import GHC.Conc (getNumCapabilities)

-- Nothing of the package is named here: to depend on it is enough.
main :: IO ()
main = getNumCapabilities >>= print
