long struct s { int a; } x;
