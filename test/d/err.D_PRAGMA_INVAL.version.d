#pragma D binding "one" x
BEGIN { }
