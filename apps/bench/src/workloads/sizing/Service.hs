{-# LANGUAGE OverloadedStrings #-}
-- A service with one thread per connection. It signs each request (Ed25519), counts it in Redis and
-- answers with JSON. It ends at SIGINT. Its arguments are its own port and the port of Redis.
module Main (main) where

import Control.Concurrent (forkIO)
import Control.Exception (bracket, finally)
import Control.Monad (forever, void)
import qualified Crypto.PubKey.Ed25519 as Ed
import Data.ByteArray.Encoding (Base (Base16), convertToBase)
import qualified Data.ByteString.Char8 as B
import Data.Char (toLower)
import Data.Maybe (fromMaybe, listToMaybe)
import Network.Socket
import Network.Socket.ByteString (recv, sendAll)
import System.Environment (getArgs)
import System.IO (hFlush, stdout)

main :: IO ()
main = do
  [port, redis] <- map read <$> getArgs
  key <- Ed.generateSecretKey
  bracket (socket AF_INET Stream defaultProtocol) close $ \listener -> do
    setSocketOption listener ReuseAddr 1
    bind listener (local port)
    listen listener 1024
    putStrLn "listening" >> hFlush stdout
    forever $ do
      (peer, _) <- accept listener
      void . forkIO $ serve key peer redis `finally` close peer

local :: Int -> SockAddr
local port = SockAddrInet (fromIntegral port) (tupleToHostAddress (127, 0, 0, 1))

serve :: Ed.SecretKey -> Socket -> Int -> IO ()
serve key peer redis = bracket (socket AF_INET Stream defaultProtocol) close $ \counter -> do
  setSocketOption peer NoDelay 1
  connect counter (local redis)
  setSocketOption counter NoDelay 1
  let go rest = do
        request <- receive peer rest
        case request of
          Nothing -> return ()
          Just (body, more) -> do
            sendAll counter "*2\r\n$4\r\nINCR\r\n$6\r\nsigned\r\n"
            count <- B.takeWhile (/= '\r') . B.drop 1 <$> recv counter 64
            let signature = convertToBase Base16 (Ed.sign key (Ed.toPublic key) body)
            answer peer (json [("count", B.unpack count), ("signature", B.unpack signature)])
            go more
  go B.empty

json :: [(String, String)] -> B.ByteString
json fields = B.pack ("{" ++ foldr1 (\a b -> a ++ "," ++ b) (map field fields) ++ "}")
  where field (name, value) = show name ++ ":" ++ show value

answer :: Socket -> B.ByteString -> IO ()
answer peer body =
  sendAll peer (B.concat ["HTTP/1.1 200 OK\r\ncontent-length: ", B.pack (show (B.length body)), "\r\n\r\n", body])

-- The body of a request, and the bytes after it.
receive :: Socket -> B.ByteString -> IO (Maybe (B.ByteString, B.ByteString))
receive peer got = case B.breakSubstring "\r\n\r\n" got of
  (headers, rest)
    | not (B.null rest), B.length rest >= 4 + size headers ->
        return (Just (B.splitAt (size headers) (B.drop 4 rest)))
  _ -> do
    more <- recv peer 4096
    if B.null more then return Nothing else receive peer (got <> more)

size :: B.ByteString -> Int
size headers = fromMaybe 0 (listToMaybe [n | line <- B.lines headers, Just n <- [field line]])
  where
    field line = case B.break (== ':') line of
      (name, value) | B.map toLower name == "content-length" ->
        fst <$> B.readInt (B.dropWhile (== ' ') (B.drop 1 value))
      _ -> Nothing
