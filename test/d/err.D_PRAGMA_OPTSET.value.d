#pragma D option amin=good
BEGIN { }
