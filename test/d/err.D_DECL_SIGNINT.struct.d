unsigned struct s { int a; } x;
