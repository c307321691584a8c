#pragma D error not for this machine
BEGIN { }
