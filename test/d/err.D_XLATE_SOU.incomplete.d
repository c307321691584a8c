translator struct nosuch < char c > { x = 1; };
