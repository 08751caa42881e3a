-- Prints the number of processors that the runtime counts, and the number of capabilities that -N
-- created.
import GHC.Conc (getNumCapabilities, getNumProcessors)

main :: IO ()
main = do
  processors <- getNumProcessors
  capabilities <- getNumCapabilities
  putStrLn ("processors " ++ show processors ++ ", capabilities " ++ show capabilities)
