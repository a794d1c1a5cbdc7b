%% Copies records of 200 bytes: record_copy IN OUT
-module(record_copy).
-export([start/0]).

start() ->
    [From, To] = init:get_plain_arguments(),
    {ok, Input} = file:open(From, [read, raw, binary]),
    {ok, Output} = file:open(To, [write, raw, binary]),
    copy(Input, Output),
    halt().

copy(Input, Output) ->
    case file:read(Input, 200) of
        {ok, Record} ->
            ok = file:write(Output, Record),
            copy(Input, Output);
        eof ->
            ok
    end.
