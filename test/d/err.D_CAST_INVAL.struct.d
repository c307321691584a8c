struct s { int a; }; struct s x; BEGIN { trace((int)x); }
