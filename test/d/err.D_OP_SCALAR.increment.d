string s; BEGIN { s++; }
