#nosuch
BEGIN { }
