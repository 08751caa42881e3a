import GHC.Conc (getNumCapabilities)
import System.Environment (getArgs)
import System.IO (hFlush, stdout)
import System.Process (callProcess)

-- Its capabilities, and then those of the program that it is given.
main :: IO ()
main = do
  getNumCapabilities >>= print
  hFlush stdout
  getArgs >>= mapM_ (\program -> callProcess program [])
