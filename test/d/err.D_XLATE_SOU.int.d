translator int < char c > { x = 1; };
