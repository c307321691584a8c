inline int x = "s";
