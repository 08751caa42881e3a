-- Prints how many processors the runtime believes in, and how many capabilities -N gave it.
import GHC.Conc (getNumCapabilities, getNumProcessors)

main :: IO ()
main = do
  processors <- getNumProcessors
  capabilities <- getNumCapabilities
  putStrLn ("processors " ++ show processors ++ ", capabilities " ++ show capabilities)
