struct a { int x; int y; }; translator struct a < int i > { x = i; }; BEGIN { trace(xlate <struct a> (1).y); }
