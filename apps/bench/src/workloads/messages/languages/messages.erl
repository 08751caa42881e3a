%% A chain of processes. Prints the ns per pass, the number of passes, and the memory in KiB before
%% the first pass and at its peak.
-module(messages).
-export([main/1]).

chain(Length) ->
    First = lists:foldl(fun(_, Left) -> spawn(fun() -> forward(Left) end) end,
                        self(), lists:seq(1, Length)),
    First ! 0,
    receive Length -> ok end.

forward(Left) -> receive N -> Left ! N + 1 end.

kib(Name) ->
    {ok, File} = file:open("/proc/self/status", [read, raw, binary]),
    {ok, Text} = file:read(File, 65536),
    file:close(File),
    case re:run(Text, Name ++ ":\\s*(\\d+)", [{capture, [1], list}]) of
        {match, [Kib]} -> Kib;
        nomatch -> "0"
    end.

repeated(Length, Ns) -> repeated(Length, Ns, erlang:monotonic_time(nanosecond), 1).

repeated(Length, Ns, Begin, Count) ->
    chain(Length),
    case erlang:monotonic_time(nanosecond) - Begin of
        Taken when Taken < Ns -> repeated(Length, Ns, Begin, Count + 1);
        Taken -> {Count, Taken / Count}
    end.

main([_, Length, _, Warm, Sample]) ->
    [L, W, S] = [list_to_integer(A) || A <- [Length, Warm, Sample]],
    Before = kib("VmRSS"),
    {Warmed, _} = repeated(L, W * 1000),
    {Counted, Ns} = repeated(L, S * 1000),
    io:format("~f ~b ~s ~s~n", [Ns, Warmed + Counted, Before, kib("VmHWM")]),
    halt(0).
