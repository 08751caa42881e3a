import GHC.Conc (getNumCapabilities)

main :: IO ()
main = getNumCapabilities >>= print
