struct a { int x; }; translator struct a < int i > { y = 1; };
