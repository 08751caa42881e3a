import Control.Exception (IOException, try)
import Creel (setMask, workers)

-- Shows that a thread that narrows its own mask gets fewer workers. `main` runs in a bound thread.
main :: IO ()
main = do
  invalid <- try (setMask "0\0-1") :: IO (Either IOException ())
  print invalid
  setMask "0"
  workers >>= print
