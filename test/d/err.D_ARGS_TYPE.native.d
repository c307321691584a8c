odd:::untyped { trace(args[0]); }
