#pragma D attributes Good/Bad/Ugly pid
BEGIN { }
