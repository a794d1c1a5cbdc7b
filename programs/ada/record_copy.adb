--  Copies records of 200 bytes: record_copy IN OUT
with Ada.Command_Line;
with Ada.Direct_IO;

procedure Record_Copy is
   type Item is array (1 .. 200) of Character;
   package Items is new Ada.Direct_IO (Item);
   Input, Output : Items.File_Type;
   One : Item;
begin
   Items.Open (Input, Items.In_File, Ada.Command_Line.Argument (1));
   Items.Create (Output, Items.Out_File, Ada.Command_Line.Argument (2));
   while not Items.End_Of_File (Input) loop
      Items.Read (Input, One);
      Items.Write (Output, One);
   end loop;
   Items.Close (Output);
end Record_Copy;
