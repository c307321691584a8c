struct a { int x; }; translator struct a < int i > { x = i; }; translator struct a < int i > { x = i; };
