nosuch:::probe { }
