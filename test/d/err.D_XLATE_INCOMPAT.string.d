struct a { int x; }; translator struct a < int i > { x = "one"; };
