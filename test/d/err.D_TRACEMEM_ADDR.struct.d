struct s { int a; }; struct s x; BEGIN { tracemem(x, 1); }
