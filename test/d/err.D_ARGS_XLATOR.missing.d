odd:::noxlate { trace(args[0]); }
